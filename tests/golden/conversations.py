"""Conversations with what their chat templates read: pairs of messages and variables."""

SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "What is 12 + 30?"}
TALK = [
    SYSTEM, USER, {"role": "assistant", "content": "<think>\nadd\n</think>\n\n42"},
    {"role": "user", "content": " And \n\u00e9\u4f60\U0001f600 'q' \"d\"?\n"},
]
TOOLS = [{
    "function": {
        "description": "Weather <now> & \"later\" \u00e9", "name": "weather", "parameters": {
            "properties": {
                "city": {"enum": ["Bern", "Z\u00fcrich"], "type": "string"},
                "days": {"default": 1.5, "minimum": -3, "type": "number"},
            }, "required": ["city"], "strict": True, "type": "object",
        },
    }, "type": "function",
}, {
    "function": {
        "description": "", "name": "nothing", "parameters": {"properties": {}, "type": "object"},
    }, "type": "function",
},]
CALLS = [
    USER, {
        "role": "assistant", "content": "I look.", "tool_calls": [{
            "function": {"arguments": {"city": "Z\u00fcrich", "days": 2}, "name": "weather"},
            "type": "function",
        }, {"arguments": {}, "name": "nothing"},],
    }, {"role": "tool", "content": "sunny"}, {"role": "tool", "content": "{\"a\": 1}"},
    {"role": "assistant", "content": "Fine.",
     "reasoning_content": "\nso\n"}, {"role": "user", "content": "Thanks"}, {
         "role": "assistant", "content": "",
         "tool_calls": [{"function": {"arguments": "{}", "name": "nothing"}}],
     }, {"role": "tool", "content": "done"},
]
CONVERSATIONS = [([USER], {}), ([SYSTEM, USER], {}), (TALK, {}), (TALK, {"tools": TOOLS}),
                 ([USER], {"tools": TOOLS[1:], "enable_thinking": False}),
                 ([USER], {"enable_thinking": True}), (CALLS[:2] + CALLS[2:6], {"tools": TOOLS}),
                 (CALLS, {"tools": TOOLS}),
                 ([
                     USER, {"role": "user", "content": "<tool_response>x</tool_response>"},
                     {"role": "assistant", "content": "y"},
                 ], {},
                 ),]

DATE = {"date_string": "26 Jul 2024"}
OTHER_CONVERSATIONS = [
    ([USER], DATE), ([SYSTEM, USER], DATE), (TALK, DATE), ([USER], {**DATE, "tools": TOOLS}),
    ([SYSTEM, USER], {**DATE, "tools": TOOLS, "tools_in_user_message": False}),
]
