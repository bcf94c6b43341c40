"""schemathesis over the whole OpenAPI: no operation answers with a fault of ours, or with what is not described.

`TIMEPLEX_EXAMPLES` sets the number of examples an operation; without it there are few, so that CI stays quick.
"""

import os
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.serve.asked import service, serving

from timeplex.serve.app import create_app
from timeplex.serve.rest import REFUSALS

EXAMPLES = int(os.environ.get("TIMEPLEX_EXAMPLES", "15"))
OPERATIONS = 12


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    service().discover(["bornIn"], min_probability=0.0)  # so that no search is gone on with
    service().discover(min_probability=0.0)
    with serving(create_app(service())) as found:
        yield found


schema = schemathesis.openapi.from_dict(create_app(service()).openapi())


def test_every_operation_is_described_with_every_status() -> None:
    paths = create_app(service()).openapi()["paths"]
    operations = {(path, method): of for path, methods in paths.items() for method, of in methods.items()}
    ours = {where: of for where, of in operations.items() if where[0].startswith("/v1/")}
    assert len(ours) == OPERATIONS
    for of in ours.values():
        assert {int(status) for status in of["responses"]} == {200, *REFUSALS}
        assert of["summary"]
        assert of["description"]


@pytest.mark.slow
@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
def test_no_answer_is_a_fault_or_undescribed(case: schemathesis.Case, url: str) -> None:
    case.call_and_validate(
        base_url=url,
        checks=[
            not_a_server_error,
            status_code_conformance,
            content_type_conformance,
            response_schema_conformance,
        ],
    )
