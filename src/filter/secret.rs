//! The secret key of a filter's hash function, kept out of logs by its type.

use std::fmt;

use siphasher::sip::SipHasher24;

/// A 128-bit key for the hash function, different for every filter that is built.
///
/// Whoever knows it can compute names that all fall on one block, or that the filter takes for
/// known ones. So it has no `Display`, its `Debug` hides it, and only
/// [`fingerprint`](Self::fingerprint) may leave the process.
///
/// ```
/// use namegate::filter::HashSecret;
/// assert_eq!(format!("{:?}", HashSecret::random()?), "HashSecret(..)");
/// # Ok::<(), namegate::filter::SecretError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct HashSecret([u8; 16]);

/// The operating system gave no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the system's random source gave no key")]
pub struct SecretError(#[source] getrandom::Error);

impl HashSecret {
    /// A new key from the system's random source.
    ///
    /// # Errors
    /// [`SecretError`] when the source fails, which healthy systems never do.
    pub fn random() -> Result<Self, SecretError> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(SecretError)?;
        Ok(Self(bytes))
    }

    /// A key that was stored before, or a fixed one for tests.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The key itself, for the one file that stores it.
    #[must_use]
    pub const fn to_bytes(&self) -> [u8; 16] {
        self.0
    }

    /// A 64-bit name of this key that tells keys apart and does not lead back to the key.
    ///
    /// It is a keyed hash of a fixed text, by a variant of the function (`SipHash-2-4`, 64 bits)
    /// that no name is ever hashed with. Part of the stored format: the same key has the same
    /// fingerprint on every machine.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        SipHasher24::new_with_key(&self.0).hash(b"namegate filter key fingerprint")
    }
}

impl fmt::Debug for HashSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashSecret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_never_shows_the_key() {
        let secret = HashSecret::from_bytes([0xAB; 16]);
        assert_eq!(
            format!("{secret:?} {secret:#?}"),
            "HashSecret(..) HashSecret(..)"
        );
    }

    #[test]
    fn fingerprints_are_stable_and_tell_keys_apart() {
        let secret =
            HashSecret::from_bytes(std::array::from_fn(|i| u8::try_from(i).expect("below 16")));
        assert_eq!(secret.fingerprint(), 0x4ad0_290d_ed1f_2138); // computed apart from this code
        for bit in 0..128 {
            let mut other = secret.to_bytes();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(
                HashSecret::from_bytes(other).fingerprint(),
                secret.fingerprint()
            );
        }
    }

    #[test]
    fn random_keys_differ() {
        assert_ne!(
            HashSecret::random().expect("random"),
            HashSecret::random().expect("random")
        );
    }
}
