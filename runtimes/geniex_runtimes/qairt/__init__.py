"""The Snapdragon runtime: compiled bundles on the Hexagon NPU, or on its simulator."""
