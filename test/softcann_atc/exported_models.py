"""Small models of the usual kinds, random weights: (module, example inputs)."""
import torch
from torch import nn


def lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.Sigmoid(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Sigmoid(), nn.AvgPool2d(2),
                         nn.Flatten(), nn.Linear(400, 84), nn.Tanh(), nn.Linear(84, 10)), (torch.randn(2, 1, 28, 28),)


class Block(nn.Module):
    """A residual block with batch norms whose statistics are not trivial."""

    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                                  nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        return torch.relu(self.body(x) + x)


def resnet():
    model = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1), Block(8), Block(8),
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.5, 0.5)
            nn.init.uniform_(module.running_var, 0.5, 2)
            nn.init.uniform_(module.weight, 0.5, 1.5)
    return model, (torch.randn(2, 3, 32, 32),)


def mobilenet():
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.Hardswish(), nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.ReLU6(), nn.Conv2d(8, 16, 1),
                         nn.Hardsigmoid(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5), nn.Softmax(-1)), (torch.randn(2, 3, 24, 24),)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, "gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids):
        return self.layers(self.words(ids))


def encoder():
    return Encoder(), (torch.randint(0, 50, (2, 7)),)


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.net = kind(6, 8, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.net(x)[0])


def lstm():
    return Recurrent(nn.LSTM), (torch.randn(2, 5, 6),)


def gru():
    return Recurrent(nn.GRU), (torch.randn(2, 5, 6),)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.middle = nn.Conv2d(3, 8, 3, 2, 1), nn.Sequential(nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv2d(8, 8, 3, 1, 1))
        self.up, self.last = nn.ConvTranspose2d(8, 8, 4, 2, 1), nn.Conv2d(11, 2, 1)

    def forward(self, x):
        low = self.middle(self.down(x))
        wide = nn.functional.interpolate(low, scale_factor=2, mode="bilinear", align_corners=False)
        return self.last(torch.cat([self.up(low) + wide, x], 1))


def unet():
    return UNet(), (torch.randn(1, 3, 16, 16),)


class Detector(nn.Module):
    """Anchors, boxes decoded, the best ones picked."""

    def __init__(self):
        super().__init__()
        self.trunk, self.boxes, self.scores = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 4, 1), nn.Conv2d(8, 3, 1)

    def forward(self, x):
        features = torch.relu(self.trunk(x))
        boxes = self.boxes(features).flatten(2).transpose(1, 2).sigmoid()
        scores = self.scores(features).flatten(2).softmax(1)
        best, place = scores.amax(1).topk(5)
        return torch.gather(boxes, 1, place.unsqueeze(-1).expand(-1, -1, 4)), best


def detector():
    return Detector(), (torch.randn(1, 3, 16, 16),)


class Outputs(nn.Module):
    """A model of transformers with a tuple of tensors as outputs, and no cache."""

    def __init__(self, model, *names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs):
        return self.model(**dict(zip(self.names, inputs)), return_dict=False)[0]


def bert():
    from transformers import BertConfig, BertModel
    config = BertConfig(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
    return Outputs(BertModel(config), "input_ids", "attention_mask"), (torch.randint(0, 60, (2, 9)), torch.ones(2, 9, dtype=torch.int64))


def gpt():
    from transformers import GPT2Config, GPT2LMHeadModel
    config = GPT2Config(vocab_size=60, n_embd=32, n_layer=2, n_head=4, n_positions=32, use_cache=False)
    return Outputs(GPT2LMHeadModel(config), "input_ids"), (torch.randint(0, 60, (2, 9)),)


def t5():
    from transformers import T5Config, T5EncoderModel
    config = T5Config(vocab_size=60, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    return Outputs(T5EncoderModel(config), "input_ids"), (torch.randint(0, 60, (2, 9)),)


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(vocab_size=60, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, use_cache=False)
    return Outputs(LlamaForCausalLM(config), "input_ids"), (torch.randint(0, 60, (2, 9)),)


def vit():
    from transformers import ViTConfig, ViTModel
    config = ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8)
    return Outputs(ViTModel(config), "pixel_values"), (torch.randn(2, 3, 32, 32),)


def clip():
    from transformers import CLIPTextConfig, CLIPTextModel
    config = CLIPTextConfig(vocab_size=60, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                            max_position_embeddings=16, eos_token_id=59)
    return Outputs(CLIPTextModel(config), "input_ids"), (torch.randint(0, 59, (2, 9)),)


def speech():
    from transformers import WhisperConfig, WhisperModel
    config = WhisperConfig(vocab_size=60, d_model=32, encoder_layers=2, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
                           encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=20, num_mel_bins=8, pad_token_id=0,
                           bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
    return WhisperModel(config).encoder, (torch.randn(1, 8, 40),)


MODELS = {function.__name__: function for function in (
    lenet, resnet, mobilenet, encoder, lstm, gru, unet, detector, bert, gpt, t5, llama, vit, clip, speech)}
