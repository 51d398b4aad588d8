"""The figures of elasticutor.txt 5 that can be repeated in virtual time, by their numbers."""

from __future__ import annotations

from stretto.simulator.experiments.paper_dynamics import (
    RUNS_6,
    RUNS_8,
    RUNS_9,
    RUNS_10,
    RUNS_16,
    figure_6,
    figure_8,
    figure_9,
    figure_10,
    figure_16,
)
from stretto.simulator.experiments.paper_exchange import (
    RUNS_19,
    RUNS_TABLE_2,
    RUNS_TABLE_3,
    figure_19,
    table_2,
    table_3,
)
from stretto.simulator.experiments.paper_figures import PaperExperiment
from stretto.simulator.experiments.paper_moves import RUNS_11, RUNS_12, figure_11, figure_12
from stretto.simulator.experiments.paper_scaling import RUNS_13, RUNS_15, figure_13, figure_15

ELASTIC_FIGURES: dict[str, PaperExperiment] = {
    "6": PaperExperiment(figure_6, RUNS_6),
    "8": PaperExperiment(figure_8, RUNS_8),
    "9": PaperExperiment(figure_9, RUNS_9),
    "10": PaperExperiment(figure_10, RUNS_10),
    "11": PaperExperiment(figure_11, RUNS_11),
    "12": PaperExperiment(figure_12, RUNS_12),
    "13": PaperExperiment(figure_13, RUNS_13),
    "15": PaperExperiment(figure_15, RUNS_15),
    "16": PaperExperiment(figure_16, RUNS_16),
    "19": PaperExperiment(figure_19, RUNS_19),
    "table-2": PaperExperiment(table_2, RUNS_TABLE_2),
    "table-3": PaperExperiment(table_3, RUNS_TABLE_3),
}
"""Figure 14 is the latency of the runs of figure 13."""
