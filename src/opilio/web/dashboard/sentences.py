"""Sentences of other parts, in the viewer's language.

A refusal and the answer to "why?" are told in English by whoever refuses or answers: programs and logs read them too.
Here stand those that a person meets on a page, with their values left open; a sentence that is not here stays as it is.
"""

import re
from functools import cache


def sentence(text: str) -> str:
    """Marks a text for the catalogues."""
    return text


KNOWN = (
    # why it is not running
    sentence("it is being crawled by %(bot)s"),
    sentence("the policy is disabled; enable it to crawl this URL again"),
    sentence("the last crawl failed; retry %(n)s of %(most)s waits until %(at)s UTC"),
    sentence("it is due at %(at)s UTC"),
    sentence("%(host)s asked to be left alone; nobody visits it before then"),
    sentence("%(why)s; nobody visits it before then"),
    sentence("%(host)s is visited every %(n)s s at most"),
    sentence("%(host)s has %(held)s of %(cap)s jobs running at once"),
    sentence("no bot with the capability %(queue)s was ever seen"),
    sentence("no bot with the capability %(queue)s was seen for %(n)s min"),
    # what is worth knowing about a project
    sentence("the platform has only %(n)s of the %(limit)s asked for"),
    # what was refused
    sentence("the job is %(state)s; %(action)s is possible for %(states)s only"),
    sentence("the policy has an active job already; wait for it, or release it"),
    sentence("the policy of this job was deleted"),
    sentence("nothing is ticked"),
    sentence("there is no policy %(id)s"),
    sentence("there is no job %(id)s"),
    sentence("there is no project %(id)s"),
    sentence("there is another project %(id)s already"),
    sentence("another policy has the URL %(url)s"),
    sentence("a policy for %(url)s exists already; change it with %(how)s"),
    sentence("must begin with http:// or https://"),
    sentence("must be an http or https URL with a host"),
    sentence("must not carry credentials: receivers verify the signature instead"),
    sentence("%(host)s is a private or reserved address; %(setting)s can allow it"),
    sentence("%(host)s is a private or reserved address; %(setting)s permits some"),
    sentence("must be one of %(names)s"),
    sentence("must be greater than 0"),
    sentence("must not be negative"),
    sentence("must be a number"),
    sentence("is required"),
    sentence("is not JSON: %(why)s"),
    sentence("one key=value a line; this is none: %(line)s"),
    sentence("is no day and no time"),
    sentence("name at least one keyword, of the brand or of a competitor"),
    sentence("name at least one platform, or leave the field out for all of them"),
    sentence("name at least one event, or * for all of them"),
    sentence("keyword %(n)s is blank or unprintable"),
    sentence("begin with a name in brackets: %(line)s belongs to nobody"),
    sentence("%(name)s is the only admin; make another one first"),
    sentence("the name or the password is wrong"),
    sentence("too many attempts; wait %(n)s s"),
    sentence("must have at least %(n)s characters"),
    sentence("this login link was used already or is too old; `opilio login` prints a new one"),
    sentence("this needs the scope %(scope)s; %(who)s has %(own)s"),
    sentence("this form was sent from another site"),
    sentence("this form is too old: go back, reload the page and send it again"),
    sentence("the endpoint is %(state)s: enable it first"),
)
_VALUE = re.compile(r"%\\?\((\w+)\\?\)s")


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(_VALUE.sub(r"(?P<\1>.+?)", re.escape(text))), text) for text in KNOWN)


def recognise(told: str) -> tuple[str, dict[str, str]] | None:
    """The sentence that a text was made from, and the values in it."""
    for pattern, text in _patterns():
        if found := pattern.fullmatch(told):
            return text, found.groupdict()
    return None
