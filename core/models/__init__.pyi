from .fcn import FCN as FCN
from .resnet import ResNet as ResNet
from .transformer import Transformer as Transformer
from .unet import UNet as UNet
