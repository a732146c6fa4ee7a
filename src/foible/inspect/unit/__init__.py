"""Units: what excites a unit, or a direction, of a layer (paper 3, Sec. 3)."""
