"""What the three Python clients share: a plan read from stdin, one JSON line written for each step.

A plan is `{"target": URL | {"command", "args"}, "mode": "legacy" | "auto" | "modern", "steps": [...]}`.
A client offers one coroutine per kind of step; each answers with plain values that the driver compares.
"""

import asyncio
import json
import sys

STEP_LIMIT = 45.0


def read_plan() -> dict:
    return json.load(sys.stdin)


def tell(**line) -> None:
    print(json.dumps(line), flush=True)


async def run_steps(steps: list, doers: dict) -> None:
    """Runs the steps in order. A step that fails is told and does not stop the ones after it."""
    for number, step in enumerate(steps):
        arguments = {key: value for key, value in step.items() if key != "do"}
        try:
            value = await asyncio.wait_for(doers[step["do"]](**arguments), STEP_LIMIT)
            tell(step=number, ok=True, value=value)
        except Exception as error:  # whatever an SDK raises is the answer of this step
            tell(step=number, ok=False, error=f"{type(error).__name__}: {error}"[:500])


def texts(content) -> list:
    """The text parts of a result's content."""
    return [part.text for part in content if getattr(part, "text", None) is not None]
