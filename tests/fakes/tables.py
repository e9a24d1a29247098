"""The tables of template.yaml as `create_table` takes them, so that no test's table differs from what is deployed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from streamlease.write import Table

TEMPLATE = Path(__file__).parents[2] / "template.yaml"
RESOURCES: Mapping[Table, str] = {
    Table.CONNECTIONS: "ConnectionsTable",
    Table.MEMBERS: "MembersTable",
    Table.WORKER_ITEMS: "WorkerItemsTable",
}
"""Logical ids."""


class _Loader(yaml.SafeLoader):
    """Reads CloudFormation's tags as the plain values under them: no table's schema has one."""


def _plain(loader: yaml.SafeLoader, _tag: str, node: yaml.Node) -> object:
    match node:
        case yaml.ScalarNode():
            return loader.construct_scalar(node)
        case yaml.SequenceNode():
            return loader.construct_sequence(node, deep=True)
        case yaml.MappingNode():
            return loader.construct_mapping(node, deep=True)
        case _:
            raise AssertionError(node)


_Loader.add_multi_constructor("!", _plain)


def template() -> Mapping[str, Any]:
    loaded = yaml.load(TEMPLATE.read_text(), _Loader)  # noqa: S506 - a SafeLoader
    assert isinstance(loaded, dict)
    return loaded


def create_table_requests(prefix: str) -> Mapping[Table, dict[str, Any]]:
    """Arguments of `create_table` for each table, on demand, called `<prefix><table>`."""
    resources = template()["Resources"]
    requests: dict[Table, dict[str, Any]] = {}
    for table, resource in RESOURCES.items():
        properties = resources[resource]["Properties"]
        request = {
            "TableName": f"{prefix}{table}",
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": properties["AttributeDefinitions"],
            "KeySchema": properties["KeySchema"],
        }
        if "GlobalSecondaryIndexes" in properties:
            request["GlobalSecondaryIndexes"] = [
                {name: index[name] for name in ("IndexName", "KeySchema", "Projection")}
                for index in properties["GlobalSecondaryIndexes"]
            ]
        requests[table] = request
    return requests
