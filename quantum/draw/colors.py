"""Colors of gates and of other parts of drawings and charts."""

__all__ = ["COLORS"]

COLORS = {
    "gate": "#3b6fb6",
    "rotation": "#8a5fb0",
    "measure": "#5c6670",
    "reset": "#5c6670",
    "channel": "#c2543d",
    "ink": "#1f2933",
    "grid": "#d5dae0",
}
