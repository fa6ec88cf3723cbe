"""What a client reads when it gets no answer: never what an exception says, nor a path."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from regard.errors import UserError

PATH = re.compile(r"(?:^|(?<=[\s\"'“(=]))(?:~|[A-Za-z]:)?(?:[/\\][^\s/\\]+){2,}")
"""Looks like a path of this machine."""
TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
"""What OpenAI calls them; others are "server_error" or "invalid_request_error"."""


class Refusal(Exception):
    """A request that is not answered as it was asked."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        retry: float | None = None,
    ) -> None:
        """`retry`: after so many seconds the same request may find a place."""
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param
        self.retry = retry

    def renamed(self, names: Mapping[str, str]) -> "Refusal":
        """The same, of a key as the client calls it."""
        own = names.get(self.param or "", "")
        if not (self.param and own):
            return self
        said = own + self.message.removeprefix(self.param)
        return Refusal(self.status, said, code=self.code, param=own, retry=self.retry)

    @property
    def headers(self) -> dict[str, str]:
        found = {"retry-after": str(max(1, round(self.retry)))} if self.retry is not None else {}
        return found | ({"www-authenticate": "Bearer"} if self.status == 401 else {})

    def body(self, path: str) -> dict[str, Any]:
        """In OpenAI's shape under /v1, in LibreTranslate's elsewhere."""
        if not path.startswith("/v1"):
            return {"error": self.message}
        usual = "server_error" if self.status >= 500 else "invalid_request_error"
        kind = TYPES.get(self.status, usual)
        return {
            "error": {
                "message": self.message,
                "type": kind,
                "param": self.param,
                "code": self.code,
            }
        }


def broken(request: str) -> Refusal:
    """What is said of a mistake of ours: where the log has the rest."""
    said = f"something went wrong here; the log knows it as {request}"
    return Refusal(500, said, code="internal")


class Gone(Exception):
    """The client has gone away: nobody waits for an answer."""


def refused(error: UserError, given: Iterable[str] = (), code: str = "unusable") -> Refusal:
    """What a user may read of a mistake that is theirs: all of it, unless it names a path that they
    have not given."""
    message = str(error)
    texts = [*given]
    for found in PATH.findall(message):
        if not any(found.strip("“”\"'().,:; ") in text for text in texts):
            return Refusal(400, "the input or one of its options cannot be used", code=code)
    return Refusal(400, message, code=code)
