"""What rqmail costs and reaches, measured against references in the same run. Run ``python -m bench``."""
