"""How far apart colours are for people of any colour vision.

Colour vision: Machado, Oliveira, Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency" (2009), the
whole deficiency, on linear light. Difference: CIEDE2000 (Sharma, Wu, Dalal 2005). Contrast: WCAG 2.
"""

from __future__ import annotations

import itertools
import math
import re

Triple = tuple[float, float, float]

VISIONS: dict[str, tuple[Triple, Triple, Triple]] = {
    "usual": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def linear(color: str) -> Triple:
    """The light of "#rrggbb" or "rgb(r g b)", each part from 0 to 1."""
    parts = [int(color[i:i + 2], 16) for i in (1, 3, 5)] if color.startswith("#") else [int(part) for part in re.findall(r"\d+", color)]
    values = [part / 255 for part in parts]
    red, green, blue = (value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in values)
    return red, green, blue


def seen(light: Triple, vision: str) -> Triple:
    first, second, third = (min(1.0, max(0.0, sum(weight * part for weight, part in zip(row, light)))) for row in VISIONS[vision])
    return first, second, third


def lab(light: Triple) -> Triple:
    """CIELAB, for the white of sRGB."""
    def part(row: Triple, white: float) -> float:
        value = sum(weight * one for weight, one in zip(row, light)) / white
        return value ** (1 / 3) if value > 216 / 24389 else (24389 / 27 * value + 16) / 116

    x = part((0.4124564, 0.3575761, 0.1804375), 0.95047)
    y = part((0.2126729, 0.7151522, 0.0721750), 1)
    z = part((0.0193339, 0.1191920, 0.9503041), 1.08883)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def hue(a: float, b: float) -> float:
    return math.degrees(math.atan2(b, a)) % 360 if a or b else 0.0


def difference(one: Triple, two: Triple) -> float:
    """CIEDE2000 of two CIELAB colours."""
    (light_1, a_1, b_1), (light_2, a_2, b_2) = one, two
    mean = (math.hypot(a_1, b_1) + math.hypot(a_2, b_2)) / 2
    more = 1 + 0.5 * (1 - math.sqrt(mean ** 7 / (mean ** 7 + 25 ** 7)))
    a_1, a_2 = a_1 * more, a_2 * more
    chroma_1, chroma_2 = math.hypot(a_1, b_1), math.hypot(a_2, b_2)
    hue_1, hue_2 = hue(a_1, b_1), hue(a_2, b_2)
    is_grey = chroma_1 * chroma_2 == 0
    turn = 0.0 if is_grey else (hue_2 - hue_1 + 180) % 360 - 180
    if is_grey:
        middle = hue_1 + hue_2
    elif abs(hue_1 - hue_2) <= 180:
        middle = (hue_1 + hue_2) / 2
    else:
        middle = ((hue_1 + hue_2 + 360) / 2) % 360
    light, chroma = (light_1 + light_2) / 2, (chroma_1 + chroma_2) / 2
    wave = (1 - 0.17 * math.cos(math.radians(middle - 30)) + 0.24 * math.cos(math.radians(2 * middle))
            + 0.32 * math.cos(math.radians(3 * middle + 6)) - 0.20 * math.cos(math.radians(4 * middle - 63)))
    of_light = (light_2 - light_1) / (1 + 0.015 * (light - 50) ** 2 / math.sqrt(20 + (light - 50) ** 2))
    of_chroma = (chroma_2 - chroma_1) / (1 + 0.045 * chroma)
    of_hue = 2 * math.sqrt(chroma_1 * chroma_2) * math.sin(math.radians(turn / 2)) / (1 + 0.015 * chroma * wave)
    rotation = (-2 * math.sqrt(chroma ** 7 / (chroma ** 7 + 25 ** 7))
                * math.sin(math.radians(60 * math.exp(-((middle - 275) / 25) ** 2))))
    return math.sqrt(of_light ** 2 + of_chroma ** 2 + of_hue ** 2 + rotation * of_chroma * of_hue)


def nearest(colors: dict[str, str], vision: str) -> tuple[float, str, str]:
    """The two that are hardest to tell apart, and how far apart they are."""
    as_seen = {name: lab(seen(linear(color), vision)) for name, color in colors.items()}
    return min((difference(as_seen[one], as_seen[two]), one, two) for one, two in itertools.combinations(sorted(as_seen), 2))


def contrast(one: str, two: str) -> float:
    dark, light = sorted(0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue in (linear(one), linear(two)))
    return (light + 0.05) / (dark + 0.05)


# Pairs of Sharma, Wu and Dalal's table 1.
PUBLISHED = (((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425), ((50, 0, 0), (50, -1, 2), 2.3669), ((50, 2.5, 0), (50, 0, -2.5), 4.3065),
             ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644), ((22.7233, 20.0904, -46.6940), (23.0331, 14.9730, -42.5619), 2.0373),
             ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082), ((50, 2.49, -0.001), (50, -2.49, 0.0011), 7.2195))
