"""Why RabbitMQ cannot be used, in one line, and what to do about it."""

from urllib.parse import unquote, urlsplit

_VHOST_REFUSED = "Connection.OpenOk"  # what the broker did not answer to the last step of a login
_LOGIN_REFUSED = "ACCESS_REFUSED"


def connection_fault(error: BaseException, url: str) -> tuple[str, str]:
    """What is wrong, and what to do."""
    parts = urlsplit(url)
    said = str(error).strip() or type(error).__name__
    user = unquote(parts.username or "guest")
    if _VHOST_REFUSED in said:
        vhost = unquote(parts.path.removeprefix("/")) or "/"
        grant = f"`rabbitmqctl set_permissions -p {vhost} {user} '.*' '.*' '.*'`"
        return (
            f"the virtual host {vhost} does not exist, or the user {user} may not use it",
            f"create it with `rabbitmqctl add_vhost {vhost}` and {grant}, or correct the path of OPILIO_AMQP_URL",
        )
    if _LOGIN_REFUSED in said:
        return f"the user {user} or the password is refused", "correct them in OPILIO_AMQP_URL"
    return f"no connection: {' '.join(said.split())}", "start RabbitMQ, or correct OPILIO_AMQP_URL"
