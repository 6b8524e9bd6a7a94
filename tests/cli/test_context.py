"""What commands share: the settings that they run with."""

import pytest

from opilio.cli.context import _prepared
from opilio.delivery.webhooks.address import checked
from opilio.errors import Invalid
from opilio.runtime.instance_file import DEMO_NOTE
from opilio.runtime.settings import load_settings

LOCAL = "http://127.0.0.1:9000/hook"


def test_beside_the_demo_a_command_accepts_local_receivers(tmp_path):
    (tmp_path / DEMO_NOTE).write_text("{}")
    assert checked(LOCAL, _prepared(load_settings(data_dir=tmp_path)).webhook_allow) == LOCAL


def test_what_the_operator_set_is_kept(tmp_path):
    (tmp_path / DEMO_NOTE).write_text("{}")
    settings = load_settings(data_dir=tmp_path, webhook_allow_private="10.0.0.0/8")
    with pytest.raises(Invalid, match="private or reserved"):
        checked(LOCAL, _prepared(settings).webhook_allow)


def test_without_the_demo_local_receivers_are_refused(tmp_path):
    with pytest.raises(Invalid, match="private or reserved"):
        checked(LOCAL, _prepared(load_settings(data_dir=tmp_path)).webhook_allow)
