"""The laboratory: experiments, papers, reports, bounds."""
