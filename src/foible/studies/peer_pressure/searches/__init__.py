"""Paper 1's future work 4 and 5: which search finds most for its inferences?"""
