"""The prices that `streamlease plan` reckons with: one dated file, or another that a person names."""

import json
from importlib import resources
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, ValidationError

from streamlease_cli.errors import BadInput


class Prices(BaseModel):
    """List prices of one region, in `currency`. A name ends in what the price is for one of."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    region: str = Field(min_length=1)
    date: str = Field(min_length=4)
    source: str
    currency: str = "USD"
    dynamodb_write_units_million: NonNegativeFloat
    dynamodb_read_units_million: NonNegativeFloat
    dynamodb_write_capacity_unit_hour: NonNegativeFloat
    dynamodb_read_capacity_unit_hour: NonNegativeFloat
    dynamodb_storage_gb_month: NonNegativeFloat
    dynamodb_backup_gb_month: NonNegativeFloat
    dynamodb_streams_lambda_reads_million: NonNegativeFloat
    """Reads of the table's stream by a function: nothing, at this file's date."""
    sqs_requests_million: NonNegativeFloat
    lambda_requests_million: NonNegativeFloat
    lambda_gb_second: NonNegativeFloat
    fargate_vcpu_hour: NonNegativeFloat
    fargate_gb_hour: NonNegativeFloat
    kinesis_on_demand_stream_hour: NonNegativeFloat
    kinesis_on_demand_in_gb: NonNegativeFloat
    kinesis_on_demand_out_gb: NonNegativeFloat
    kinesis_shard_hour: NonNegativeFloat
    kinesis_put_units_million: NonNegativeFloat


def load_prices(file: Path | None) -> Prices:
    """This release's own where `file` is None. Raises BadInput for a file that is no price list, or lacks a price."""
    if file is None:
        text, name = resources.files("streamlease_cli").joinpath("prices.json").read_text("utf-8"), "prices.json"
    else:
        try:
            text, name = file.read_text("utf-8"), str(file)
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"--prices: {file} cannot be read: {error}") from None
    try:
        return Prices.model_validate(json.loads(text))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "it"
        raise BadInput(
            f"--prices: {name}: {where}: {first['msg'].lower()};"
            " begin with what `streamlease plan --show-prices` prints"
        ) from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"--prices: {name} is not JSON: {error}") from None
