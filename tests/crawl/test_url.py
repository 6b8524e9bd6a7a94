"""What URL a policy may have, and the one form it is kept in."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from opilio.crawl.url import MAX_LENGTH, domain_name, normalise, normalise_parts
from opilio.errors import Invalid
from opilio.net.allowed_addresses import AllowList, parse_allow

NOBODY = AllowList()
EVERYTHING = AllowList(everything=True)


def kept(text: str, allow: AllowList = NOBODY) -> str:
    return normalise(text, allow).url


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://Shop.Example.COM/p/1", "https://shop.example.com/p/1"),
        ("HTTPS://shop.example.com", "https://shop.example.com/"),
        ("https://shop.example.com:443/", "https://shop.example.com/"),
        ("http://shop.example.com:80/", "http://shop.example.com/"),
        ("http://shop.example.com:443/", "http://shop.example.com:443/"),
        ("https://shop.example.com:/", "https://shop.example.com/"),
        ("https://shop.example.com./", "https://shop.example.com/"),
        ("https://shop.example.com/a#reviews", "https://shop.example.com/a"),
        ("https://shop.example.com/a?b=1&c=#x", "https://shop.example.com/a?b=1&c="),
        ("https://shop.example.com/điện-thoại", "https://shop.example.com/%C4%91i%E1%BB%87n-tho%E1%BA%A1i"),
        ("https://shop.example.com/a%2Fb", "https://shop.example.com/a%2Fb"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://BÜCHER.example/", "https://xn--bcher-kva.example/"),
        ("https://例え。テスト/", "https://xn--r8jz45g.xn--zckzah/"),
        ("https://8.8.8.8/", "https://8.8.8.8/"),
        ("https://[2606:4700:4700:0:0:0:0:1111]/", "https://[2606:4700:4700::1111]/"),
    ],
)
def test_one_form(text: str, url: str) -> None:
    assert kept(text) == url


@pytest.mark.parametrize(
    "text",
    [
        "ftp://shop.example.com/",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "shop.example.com",
        "//shop.example.com/",
        "",
        "https://",
        "https:///p",
        "https://.../",
        "https://a..b/",
        "https://-shop.example.com/",
        "https://shop-.example.com/",
        f"https://{'a' * 64}.example.com/",
        f"https://{'.'.join(['abcdefg'] * 40)}/",
        "https://shop.example.com:99999/",
        "https://shop.example.com:x/",
        "https://[::1/",
        "https://shop%2eexample.com/",
    ],
)
def test_what_is_no_web_address(text: str) -> None:
    with pytest.raises(Invalid) as refusal:
        kept(text)
    assert refusal.value.field == "url"


@pytest.mark.parametrize("character", [*map(chr, range(33)), "\x7f", "\\"])
def test_control_characters_spaces_and_backslashes(character: str) -> None:
    with pytest.raises(Invalid, match="percent-encode"):
        kept(f"https://shop.example.com/a{character}b")


def test_half_of_a_surrogate_pair_is_no_text() -> None:
    with pytest.raises(Invalid):
        kept("https://shop.example.com/\ud800")


@pytest.mark.parametrize(
    "text", ["https://user:secret@shop.example.com/", "https://user@a.example/", "https://@a.example/"]
)
def test_credentials(text: str) -> None:
    with pytest.raises(Invalid, match=r"crawl_config\.headers"):
        kept(text)


def test_2048_characters_are_the_most() -> None:
    longest = "https://shop.example.com/" + "a" * (MAX_LENGTH - 25)
    assert len(longest) == 2048
    assert kept(longest) == longest
    with pytest.raises(Invalid, match="2049"):
        kept(longest + "a")


def test_encoding_may_not_carry_a_url_past_the_limit() -> None:
    with pytest.raises(Invalid, match="once encoded"):
        kept("https://shop.example.com/" + "ệ" * 1000)


LOOPBACK = [
    "127.0.0.1", "127.1", "127.0.1", "127.0.0.1.", "0x7f000001", "0x7f.1", "2130706433", "017700000001", "0177.0.0.1",
    "0", "0.0.0.0", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::127.0.0.1]",
    "[2002:7f00:1::]", "１２７.0.0.1", "127。0。0。1", "①②⑦.0.0.1", "127.0.0.1..",
]  # fmt: skip
PRIVATE = [
    "10.0.0.1", "172.16.5.4", "192.168.1.1", "169.254.169.254", "100.64.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1",
    "240.0.0.1", "255.255.255.255", "[fe80::1]", "[fc00::1]", "[ff02::1]", "[2001:db8::1]", "[fe80::1%25eth0]",
    "[64:ff9b::10.0.0.1]", "[64:ff9b::a9fe:a9fe]", "localhost", "LOCALHOST", "localhost.", "db.internal", "printer.local",
    "a.localdomain", "nas.home.arpa",
]  # fmt: skip


@pytest.mark.parametrize("host", [*LOOPBACK, *PRIVATE])
def test_private_addresses_in_any_spelling(host: str) -> None:
    for port in ("", ":8080"):
        with pytest.raises(Invalid):
            kept(f"http://{host}{port}/admin")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "[::1]", "localhost", "10.1.2.3"])
def test_an_operator_can_allow_everything(host: str) -> None:
    assert kept(f"http://{host}/", EVERYTHING).startswith("http://")


def test_an_operator_can_allow_a_network() -> None:
    allow = parse_allow("10.0.0.0/8, 192.168.7.7")
    assert kept("http://10.1.2.3/", allow) == "http://10.1.2.3/"
    assert kept("http://192.168.7.7/", allow) == "http://192.168.7.7/"
    with pytest.raises(Invalid):
        kept("http://192.168.7.8/", allow)
    with pytest.raises(Invalid):
        kept("http://localhost/", allow)


HOSTS = st.one_of(
    st.from_regex(r"[a-zA-Z0-9_]{1,20}(\.[a-zA-Z0-9]{1,10}){1,3}", fullmatch=True),
    st.text(min_size=1, max_size=12).map(lambda text: f"{text}.example"),
    st.ip_addresses().map(lambda a: f"[{a}]" if a.version == 6 else str(a)),
    st.sampled_from([*LOOPBACK, *PRIVATE]),
)
URLS = st.builds(
    "{}://{}{}{}".format,
    st.sampled_from(["http", "https", "HTTP"]),
    HOSTS,
    st.sampled_from(["", ":80", ":443", ":8080", ":0"]),
    st.one_of(st.just(""), st.text(max_size=40).map(lambda text: f"/{text}")),
)


@given(URLS)
@example("https://a.example/?#")
@example("https://a.example/%zz")
@example("https://a.example//double//slash")
def test_the_normal_form_is_normal(text: str) -> None:
    """Whatever comes in is refused by name, or kept in a form that stays as it is."""
    try:
        first = normalise(text, NOBODY)
    except Invalid:
        return
    assert normalise(first.url, NOBODY) == first
    assert first.url.isascii()
    assert len(first.url) <= MAX_LENGTH
    assert first.host == first.host.lower()


NEARLY_PLAIN = st.builds(
    "{}://{}{}{}".format,
    st.sampled_from(["http", "https", "Http", "ftp", ""]),
    HOSTS
    | st.sampled_from(["a.example", "A.example", "a.example.", "-a.example", "a..b", "1.2.3", "b.local", ""]),
    st.sampled_from(["", "", "", ":443", "@b.example"]),
    st.text(st.sampled_from("aZ09_%/:@!$&'()*+,;=~.-?#[]{}|^`<>\"\\ \n\xe9"), max_size=30).map(
        lambda text: f"/{text}"
    ),
)


@given(NEARLY_PLAIN | URLS)
@example("https://a.example/?")
@example("https://a.example/a?b#")
@example("https://a.example//b")
@example("https://127.1/a")
@example("https://0x7f.1/a")
@example("https://xn--bcher-kva.example/")
@example("https://a.example/" + "a" * 2048)
def test_the_short_way_says_what_the_long_way_says(text: str) -> None:
    for allow in (NOBODY, EVERYTHING):
        answers = []
        for way in (normalise, normalise_parts):
            try:
                answers.append(way(text, allow))
            except Invalid as refusal:
                answers.append((refusal.field, refusal.message))
        assert answers[0] == answers[1]


@given(st.text(max_size=60))
@example("\x00")
def test_no_text_is_too_strange_to_be_answered(text: str) -> None:
    for call in (lambda: normalise(text, NOBODY), lambda: domain_name(text)):
        try:
            call()
        except Invalid as refusal:
            assert refusal.message


@pytest.mark.parametrize(
    ("text", "name"),
    [("Example.com", "example.com"), ("shop.example.com.", "shop.example.com"), ("bücher.example", "xn--bcher-kva.example"),
     ("8.8.8.8", "8.8.8.8"), ("2606:4700::1", "[2606:4700::1]"), ("[2606:4700::1]", "[2606:4700::1]")],
)  # fmt: skip
def test_a_domain_is_named_as_hosts_are(text: str, name: str) -> None:
    assert domain_name(text) == name


@pytest.mark.parametrize(
    "text", ["", "https://example.com", "example.com/p", "exa mple.com", "a..b", "%", "a_%.com"]
)
def test_what_is_no_domain(text: str) -> None:
    with pytest.raises(Invalid) as refusal:
        domain_name(text)
    assert refusal.value.field == "domain"
