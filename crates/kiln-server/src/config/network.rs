//! Networks of addresses, such as `10.0.0.0/8`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An address, and how many of its first bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differ = u32::from(own) ^ u32::from(other);
                u32::from(self.bits) <= differ.leading_zeros()
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differ = u128::from(own) ^ u128::from(other);
                u32::from(self.bits) <= differ.leading_zeros()
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no network; expected `10.0.0.0/8` or an address");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), |bits| bits.parse().map_err(|_| wrong()))?;
        if bits > most {
            return Err(wrong());
        }
        Ok(Self { address, bits })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(network: &str, address: &str, expect: bool) {
        let network: Network = network.parse().unwrap();
        assert_eq!(network.contains(address.parse().unwrap()), expect, "{network} {address}");
    }

    #[test]
    fn a_network_has_the_addresses_that_begin_like_it() {
        check("10.0.0.0/8", "10.255.1.2", true);
        check("10.0.0.0/8", "11.0.0.0", false);
        check("10.0.0.1", "10.0.0.1", true);
        check("10.0.0.1", "10.0.0.2", false);
        check("0.0.0.0/0", "255.1.1.1", true);
        check("fd00::/8", "fd12::1", true);
        check("fd00::/8", "fe00::1", false);
        check("10.0.0.0/8", "::ffff:10.1.2.3", true);
        check("10.0.0.0/8", "fd00::1", false);
        for broken in ["", "10.0.0.0/33", "10/8", "::/129", "a", "10.0.0.0/-1"] {
            assert!(broken.parse::<Network>().is_err(), "{broken}");
        }
    }
}
