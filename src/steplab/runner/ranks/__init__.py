"""Groups of rank processes: started, spoken to, surely ended."""
