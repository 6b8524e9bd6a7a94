"""Dead letters: messages that could not be processed, and can be sent again."""

from typing import Any

from opilio.web.dashboard.page import Page, PageRequest, Section, redirect

DEAD_LETTERS = Section()
_SIZE = 50


@DEAD_LETTERS.page("/dlq")
async def list_dead_letters(request: PageRequest) -> Page:
    found = await request.opilio.dead_letters.page(
        limit=_SIZE, cursor=request.query("cursor"), queue=request.query("queue")
    )
    values = {"items": found.items, "next_cursor": found.next_cursor}
    return Page("dlq.html", request.locale.gettext("Dead letters"), values, rows=found.items)


@DEAD_LETTERS.page("/dlq/{id:str}")
async def one_dead_letter(request: PageRequest) -> Page:
    letter = await request.opilio.dead_letters.get(request.id())
    return Page("dead_letter.html", request.locale.gettext("Dead letter"), {"letter": letter}, data=letter)


@DEAD_LETTERS.action("/dlq/{id:str}/replay")
async def replay_dead_letter(request: PageRequest) -> Any:
    letter = await request.opilio.dead_letters.replay(request.id(), actor=request.actor)
    return redirect(f"/dlq/{letter.id}", request.locale.gettext("Message sent again."))
