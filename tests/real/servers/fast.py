"""A small server written with FastMCP: one tool, one resource, one template, one prompt."""

import sys

from fastmcp import Context, FastMCP

server = FastMCP("fast")


@server.tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool
async def count(to: int, ctx: Context) -> str:
    """Counts and reports each number."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to)
    return f"counted to {to}"


@server.resource("fast://greeting")
def greeting() -> str:
    """A greeting."""
    return "Hello from FastMCP"


@server.resource("fast://square/{number}")
def square(number: int) -> str:
    """The square of a number."""
    return str(number * number)


@server.prompt
def review(topic: str) -> str:
    """Asks for a review."""
    return f"Please review {topic}."


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run(transport="stdio", show_banner=False)
    else:
        server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), path="/mcp", show_banner=False)
