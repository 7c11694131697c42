"""The other end of a scheduler, in its own process (mini-sglang: scheduler/io.py, by sockets)."""

from __future__ import annotations

from collections import deque

from ..message import BackendMsg, DetokenizeMsg


class MessageQueue:
    """Messages put in by hand; results are kept in ``replies``."""

    def __init__(self) -> None:
        self.waiting: deque[BackendMsg] = deque()
        self.replies: list[DetokenizeMsg] = []

    def send(self, *messages: BackendMsg) -> None:
        """Hand over messages; the next turn receives them."""
        self.waiting.extend(messages)

    def receive_msg(self, blocking: bool) -> list[BackendMsg]:
        """All that waits. Never blocks: whoever turns the loop has put the messages in before."""
        messages = list(self.waiting)
        self.waiting.clear()
        return messages

    def send_result(self, reply: list[DetokenizeMsg]) -> None:
        self.replies.extend(reply)
