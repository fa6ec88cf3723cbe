"""What a training takes: time, energy and money.

With F the FLOPs of the whole training, n devices of P FLOP/s at the utilisation u, W watts and c
dollars for an hour each, and the power of the building over that of the devices (PUE):

    seconds = F / (n P u)      energy = n W · PUE · hours      price = n c · hours
"""

from dataclasses import dataclass
from typing import Any

from regard.plan.hardware import Device

PUE = 1.2
HOST = 1.3
"""What the machine around the devices takes: processors, fans, network."""
DAY = 86400.0


@dataclass(frozen=True)
class Assumptions:
    """What a data sheet does not say."""

    utilisation: float
    watts: float
    """Of a device."""
    price: float
    """US dollars for an hour of a device."""
    pue: float = PUE
    host: float = HOST


@dataclass(frozen=True)
class Cost:
    """Of a whole training."""

    seconds: float
    devices: int
    assumed: Assumptions

    @property
    def days(self) -> float:
        return self.seconds / DAY

    @property
    def kilowatt_hours(self) -> float:
        a = self.assumed
        return self.devices * a.watts * a.host * a.pue * self.seconds / 3600 / 1000

    @property
    def dollars(self) -> float:
        return self.devices * self.assumed.price * self.seconds / 3600

    def as_dict(self) -> dict[str, Any]:
        return {
            "seconds": self.seconds,
            "days": self.days,
            "energy_kwh": self.kilowatt_hours,
            "price_usd": self.dollars,
        }


def rate(device: Device, precision: str, utilisation: float, devices: int) -> float:
    """FLOP/s that training reaches."""
    return devices * utilisation * device.rate(precision)
