"""What a network costs: parameters, FLOPs and bytes per layer, without any framework. 1 multiply-add = 2 FLOPs."""
