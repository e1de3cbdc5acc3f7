//! The signatures of `jsonwebtoken`, made and checked by ring. It knows RS, PS, ES and EdDSA and no shared-secret
//! algorithm at all: a token signed with a public key's text as HMAC secret has nothing that could accept it.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result, new_error};
use jsonwebtoken::signature::{Error, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature as ring;

static RING: CryptoProvider = CryptoProvider {
    signer_factory: no_signer,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes ring the library's provider. Whoever holds a key has called this: without a provider the library panics.
pub(crate) fn install() {
    // An error means that one is installed already, which is what is wanted.
    let _installed = RING.install_default();
}

/// Tokens are not made through the library: the gateway's own are signed where their key is held.
fn no_signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    Err(new_error(ErrorKind::UnsupportedAlgorithm))
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    if algorithm.family() != key.family() {
        return Err(new_error(ErrorKind::InvalidAlgorithm));
    }
    let check = match algorithm {
        Algorithm::RS256 => Check::Rsa(&ring::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Check::Rsa(&ring::RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Check::Rsa(&ring::RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Check::Rsa(&ring::RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Check::Rsa(&ring::RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Check::Rsa(&ring::RSA_PSS_2048_8192_SHA512),
        Algorithm::ES256 => Check::Raw(&ring::ECDSA_P256_SHA256_FIXED),
        Algorithm::ES384 => Check::Raw(&ring::ECDSA_P384_SHA384_FIXED),
        Algorithm::EdDSA => Check::Raw(&ring::ED25519),
        _ => return Err(new_error(ErrorKind::UnsupportedAlgorithm)),
    };
    Ok(Box::new(RingVerifier { algorithm: *algorithm, check, key: key.kind().clone() }))
}

enum Check {
    Rsa(&'static ring::RsaParameters),
    Raw(&'static dyn ring::VerificationAlgorithm),
}

struct RingVerifier {
    algorithm: Algorithm,
    check: Check,
    key: DecodingKeyKind,
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let checked = match (&self.check, &self.key) {
            (Check::Rsa(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                ring::RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (Check::Raw(algorithm), DecodingKeyKind::SecretOrDer(key)) => {
                ring::UnparsedPublicKey::new(*algorithm, key).verify(message, signature)
            }
            _ => return Err(Error::new()),
        };
        checked.map_err(|_| Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
