"""The API reference within the dashboard; calls that are tried there are made as the operator who is logged in."""

from opilio.web.dashboard.page import Page, PageRequest, Section

API_REFERENCE = Section()


@API_REFERENCE.page("/reference", as_data=False)
async def api_reference(request: PageRequest) -> Page:
    return Page("reference.html", request.locale.gettext("API reference"), inline_styles=True)
