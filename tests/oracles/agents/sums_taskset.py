"""A taskset of verifiers: the sum of two digits. Its harness asks in this process, twice."""
import openai
import verifiers.v1 as vf


class SumTask(vf.Task):
    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        return float((trace.last_reply or "") == self.data.name)


class SumTaskset(vf.Taskset[SumTask, vf.TasksetConfig]):
    def load(self):
        for a in range(5):
            for b in range(5):
                yield SumTask(vf.TaskData(name=str(a + b), prompt=f"{a}+{b}"), self.config.task)


class TwiceHarness(vf.Harness[vf.HarnessConfig]):
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):
        messages = [{"role": "user", "content": data.prompt}]
        async with openai.AsyncOpenAI(base_url=endpoint, api_key=secret) as client:
            for _ in range(2):
                reply = await client.chat.completions.create(model=ctx.model, messages=messages)
                content = reply.choices[0].message.content
                messages += [{"role": "assistant", "content": content},
                             {"role": "user", "content": "?"}]
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


__all__ = ["SumTaskset", "TwiceHarness"]
