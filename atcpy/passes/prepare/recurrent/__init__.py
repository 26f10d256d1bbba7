"""RNN, GRU and LSTM: loops over recurrent cells, directions, initial states."""

from atcpy.passes.prepare.recurrent import (
    bidirectional,
    cell_layers,
    cells,
    linear_form,
    loop_fusion,
    loop_values,
    splat,
    zero_states,
)
