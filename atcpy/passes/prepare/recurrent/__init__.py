"""RNN, GRU and LSTM: loops over recurrent cells, directions, initial states."""
