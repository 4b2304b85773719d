"""What a person should be told of the columns of a table."""

from diglm.data.table.columns import Column, describe

# A column is remarked on as an identifier if so many new rows show a new level, and rows tell.
IDENTIFIER_RATE, FEWEST_ROWS = 0.25, 20


def remarks_on(columns: tuple[Column, ...], n_rows: int) -> list[str]:
    """Which columns are identifiers or almost: each row has its own value, which tells nothing."""
    found = []
    for column in columns:
        if column.running:
            found.append(
                f"{describe(column.name)} looks like a row number or an identifier: whole numbers "
                f"from {column.low:.0f} to {column.high:.0f} that never repeat and run evenly. "
                "Leave it out, unless its size means something."
            )
        if column.kind != "categorical" or column.unseen_rate < IDENTIFIER_RATE:
            continue
        if n_rows >= FEWEST_ROWS:
            n_levels = sum(value is not None for value in column.categories)
            found.append(
                f"{describe(column.name)} is almost an identifier: {n_levels:,} levels in "
                f"{n_rows:,} rows, so about {100 * column.unseen_rate:.0f} % of new rows "
                "will show a level never seen. Leave it out, or group its levels."
            )
    return found
