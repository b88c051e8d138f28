"""The backend that runs decoder graphs with this project's own kernels: graph, plan, table of kernel calls.

Knows what a decoder graph means and which kernels compute it; the kernels themselves are in `graph.cpu`.
"""
