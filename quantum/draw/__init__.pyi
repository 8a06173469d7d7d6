from .charts import city as city
from .charts import histogram as histogram
from .charts import probabilities as probabilities
from .mpl import draw_mpl as draw_mpl
from .picture import circuit as circuit
from .sphere import bloch as bloch
from .svg import draw_svg as draw_svg
from .text import draw_text as draw_text
