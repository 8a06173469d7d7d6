from .fcn import FCN as FCN
from .resnet import ResNet as ResNet
from .unet import UNet as UNet
