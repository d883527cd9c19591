"""The sample campaign that ``rqmail run`` sends; all addresses are reserved for examples."""
