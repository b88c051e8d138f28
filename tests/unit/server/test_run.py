"""How a server is run, as its settings say."""

from onnxgen.server.observe.observer import Observer
from onnxgen.server.run import server_config
from onnxgen.server.services import Services
from onnxgen.server.sessions.store import SessionStore
from onnxgen.server.settings import ServerSettings


def services(**settings):
    return Services(ServerSettings(**settings), None, Observer(), SessionStore())  # type: ignore[arg-type]


def test_connections_are_as_patient_as_settings_say():
    config = server_config(services(idle_timeout_s=7, drain_s=11, max_connections=3))
    assert config.timeout_keep_alive == 7
    assert config.timeout_graceful_shutdown >= 11
    assert config.http.limits.max_connections == 3
    assert not config.proxy_headers


def test_as_many_responses_are_kept_as_settings_say():
    for most in (0, 2):
        assert services(max_stored_responses=most).responses.max_responses == most
