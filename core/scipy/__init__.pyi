from . import fft as fft
from . import linalg as linalg
from . import special as special
