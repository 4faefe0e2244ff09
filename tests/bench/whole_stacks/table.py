# SPDX-License-Identifier: Apache-2.0
"""The result as Markdown."""

RECORDERS = ("flightd", "perf fp", "perf dwarf")
WHOLE = 0.99


def percent(value):
    """With a decimal where it decides: near nothing and near all."""
    if value is None:
        return "—"
    return f"{value * 100:.0f} %" if value in (0, 1) or 0.01 <= value < 0.95 else f"{value * 100:.1f} %"


def number(value):
    return "—" if value is None else f"{value:,.0f}"


def cost(figures):
    return f"{figures['recording_us_per_sample']:.0f} + {figures['file_us_per_sample']:.0f}"


COLUMNS = (
    ("user samples", lambda figures: number(figures["samples"])),
    ("median depth", lambda figures: number(figures["depth"])),
    ("reach the entry", lambda figures: percent(figures["reach_entry"])),
    ("frames with a name", lambda figures: percent(figures["frames_named"])),
    ("leaves with a name", lambda figures: percent(figures["leaves_named"])),
    ("callers in no file", lambda figures: percent(figures["callers_in_no_file"])),
    ("bytes a sample", lambda figures: number(figures["record_bytes_per_sample"] or figures["file_bytes_per_sample"])),
    ("CPU, µs a sample", cost),
)


def markdown(result):
    lines = [f"Measured by `scripts/bench --only stacks` on {result['machine']}: {result['seconds']} s of {result['event']} at "
             f"{result['hertz']} Hz, flightd with `\"stack\": \"{result['stack']}\"`. In each cell: flightd / perf fp / perf dwarf.", "",
             "| program | " + " | ".join(name for name, _ in COLUMNS) + " |", "|---|" + "---|" * len(COLUMNS)]
    for name, program in result["programs"].items():
        cells = [" / ".join(text(program["recorders"][recorder]) for recorder in RECORDERS) for _, text in COLUMNS]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    for name, reason in result["left_out"].items():
        lines.append(f"\nLeft out: {name} ({reason.splitlines()[0]})")
    return "\n".join(lines) + "\n"


def whole(result, recorder):
    """Names of the programs whose stacks this recorder has whole, and of those that count."""
    counted = {name: program["recorders"][recorder]["reach_entry"] for name, program in result["programs"].items() if not program["apart"]}
    return [name for name, reach in counted.items() if (reach or 0) >= WHOLE], list(counted)
