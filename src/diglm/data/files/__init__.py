"""Tables on disk: Parquet, Arrow and CSV files, sampled, shuffled and streamed."""
