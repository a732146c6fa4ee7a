"""Paper 5: deep neural networks are easily fooled (Nguyen, Yosinski, Clune 2015), and its supplement."""
