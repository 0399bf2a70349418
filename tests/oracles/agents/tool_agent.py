"""An agent as its author wrote it, with the package openai: asks with a tool until there is no
call."""
import json
import os

import openai

TOOLS = [{"type": "function", "function": {
    "name": "add", "description": "adds two numbers", "parameters": {
        "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"]}}}]


def run(function):
    try:
        arguments = json.loads(function.arguments)
        return str(arguments["a"] + arguments["b"])
    except (ValueError, KeyError, TypeError) as error:
        return f"error: {error}"


def main():
    client = openai.OpenAI()
    messages = json.loads(os.environ["BUTTRESS_TASK"])["prompt"]
    while True:
        reply = client.chat.completions.create(model="policy", messages=messages, tools=TOOLS)
        message = reply.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return
        for call in message.tool_calls:
            messages.append({"role": "tool", "tool_call_id": call.id,
                             "content": run(call.function)})


if __name__ == "__main__":
    main()
