//! The built-in token formats as a table: where one starts, which characters follow, how many, and what else must
//! hold. Data alone; [`super::scan`] reads it.

use super::check::{has_digit, mixed};
use Alphabet::{Alnum, Base64, Credential, Dotted, Upper, Word};

/// Characters that a credential's body is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alphabet {
    /// `A-Z0-9`
    Upper,
    /// `A-Za-z0-9`
    Alnum,
    /// `A-Za-z0-9_-`, base64url (RFC 4648 section 5)
    Word,
    /// `A-Za-z0-9_.-`
    Dotted,
    /// Both base64 alphabets and the padding
    Base64,
    /// token68 of RFC 9110 section 11.2, and `%` and `:` for what is put in headers by hand
    Credential,
}

impl Alphabet {
    pub(super) const COUNT: usize = 6;

    pub(super) fn slot(self) -> usize {
        match self {
            Alphabet::Upper => 0,
            Alphabet::Alnum => 1,
            Alphabet::Word => 2,
            Alphabet::Dotted => 3,
            Alphabet::Base64 => 4,
            Alphabet::Credential => 5,
        }
    }

    pub(super) fn has(self, byte: u8) -> bool {
        match self {
            Alphabet::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Alphabet::Alnum => byte.is_ascii_alphanumeric(),
            Alphabet::Word => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Alphabet::Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'),
            Alphabet::Base64 => {
                byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'_' | b'-' | b'=')
            }
            Alphabet::Credential => {
                byte.is_ascii_alphanumeric()
                    || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'+' | b'/' | b'=' | b'%' | b':')
            }
        }
    }
}

/// How what follows an anchor is read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// A run of one alphabet, all of it, that passes the check.
    Run {
        alphabet: Alphabet,
        /// Shortest body, in bytes.
        least: usize,
        /// Longest body, in bytes; a longer run is something else.
        most: usize,
        check: fn(&[u8]) -> bool,
    },
    /// 36 characters, the last six a checksum. What fails it is still one when it ends there and looks random.
    Checksummed,
    /// `header.payload.signature` (RFC 7519); the anchor is the header's start.
    Jwt,
    /// A private key block (RFC 7468 and its older forms).
    Pem,
    /// A header or assignment whose scheme and value follow.
    Authorization,
    /// The name of a secret of forty base64 characters, which follows.
    Labelled,
    /// The password of a URL's userinfo (RFC 3986 section 3.2.1).
    UrlPassword,
    /// The four characters before the anchor belong to the secret, as Entra ID makes them.
    EntraSecret,
}

/// One token format. Several may share a rule's name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) rule: &'static str,
    /// Texts that start one, case-sensitive.
    pub(super) anchors: &'static [&'static str],
    pub(super) form: Form,
    /// Whether its anchors are looked for inside base64 as well.
    pub(super) wrapped: bool,
}

const ANY: usize = usize::MAX;

fn anything(_: &[u8]) -> bool {
    true
}

const fn run(
    rule: &'static str,
    anchors: &'static [&'static str],
    alphabet: Alphabet,
    least: usize,
    check: fn(&[u8]) -> bool,
) -> Shape {
    Shape { rule, anchors, form: Form::Run { alphabet, least, most: ANY, check }, wrapped: true }
}

const fn special(rule: &'static str, anchors: &'static [&'static str], form: Form, wrapped: bool) -> Shape {
    Shape { rule, anchors, form, wrapped }
}

const AWS_ID: Form = Form::Run { alphabet: Upper, least: 16, most: 16, check: anything };

/// The formats, more specific ones before those that they also fit.
pub(super) const SHAPES: &[Shape] = &[
    special("private-key", &["-----BEGIN "], Form::Pem, true),
    run("private-key", &["AGE-SECRET-KEY-1"], Upper, 50, anything),
    special("aws", &["AKIA", "ASIA", "ABIA", "ACCA"], AWS_ID, true),
    special(
        "aws",
        &["aws_secret_access_key", "AWS_SECRET_ACCESS_KEY", "SecretAccessKey", "secretAccessKey"],
        Form::Labelled,
        true,
    ),
    run("aws", &["ABSKQmVkcm9ja0FQSUtleS"], Base64, 60, anything),
    special("github", &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], Form::Checksummed, true),
    run("github", &["github_pat_"], Word, 36, mixed),
    run("gitlab", &["glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-"], Dotted, 20, mixed),
    run("gitlab", &["glimt-", "glagent-", "glsoat-", "gloas-", "glffct-", "GR1348941"], Dotted, 20, mixed),
    run("slack", &["xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-"], Word, 20, has_digit),
    run("slack", &["xapp-", "xoxc-", "xoxd-", "xoxe.xoxp-", "xoxe.xoxb-"], Credential, 20, has_digit),
    run("slack", &["hooks.slack.com/services/", "hooks.slack.com/workflows/"], Credential, 30, has_digit),
    run("stripe", &["sk_live_", "sk_test_", "rk_live_", "rk_test_", "sk_org_"], Alnum, 16, mixed),
    run("stripe", &["whsec_"], Base64, 24, mixed),
    run("google", &["AIza"], Word, 35, mixed),
    run("google", &["GOCSPX-"], Word, 24, mixed),
    run("google", &["ya29."], Dotted, 40, mixed),
    run("anthropic", &["sk-ant-"], Word, 24, mixed),
    run("openai", &["sk-proj-", "sk-svcacct-", "sk-admin-", "sk-or-v1-"], Word, 24, mixed),
    run("openai", &["sk-"], Word, 32, long_and_mixed),
    special("npm", &["npm_"], Form::Checksummed, true),
    run("pypi", &["pypi-AgE"], Word, 40, mixed),
    run("hugging-face", &["hf_", "api_org_"], Alnum, 34, mixed),
    run("sendgrid", &["SG."], Dotted, 60, mixed),
    run("digitalocean", &["dop_v1_", "doo_v1_", "dor_v1_"], Alnum, 64, has_digit),
    run("shopify", &["shpat_", "shpca_", "shppa_", "shpss_"], Alnum, 32, has_digit),
    run("databricks", &["dapi"], Word, 32, long_and_mixed),
    run("vault", &["hvs.", "hvb.", "hvr."], Word, 24, mixed),
    run("docker", &["dckr_pat_", "dckr_oat_"], Word, 20, mixed),
    run("grafana", &["glsa_", "glc_"], Base64, 32, mixed),
    run("atlassian", &["ATATT3", "ATCTT3", "ATBB"], Base64, 28, mixed),
    run("linear", &["lin_api_", "lin_oauth_"], Alnum, 32, mixed),
    run("notion", &["ntn_"], Alnum, 40, mixed),
    run("groq", &["gsk_"], Alnum, 40, mixed),
    run("xai", &["xai-"], Alnum, 60, mixed),
    run("replicate", &["r8_"], Alnum, 36, mixed),
    run("postman", &["PMAK-"], Word, 40, has_digit),
    run("new-relic", &["NRAK-"], Upper, 24, has_digit),
    run("azure", &["AccountKey=", "SharedAccessKey="], Base64, 40, mixed),
    run("azure", &["&sig=", "?sig="], Credential, 40, mixed),
    special("azure", &["8Q~", "7Q~"], Form::EntraSecret, false),
    special("jwt", &["eyJ"], Form::Jwt, false),
    special(
        "authorization",
        &["Authorization", "authorization", "AUTHORIZATION", "Bearer ", "bearer ", "BEARER "],
        Form::Authorization,
        false,
    ),
    special("url-password", &["://"], Form::UrlPassword, false),
];

/// JWT headers as they start in practice: three characters are too few to look for inside base64.
pub(super) const JWT_STARTS: &[&str] = &["eyJhbGci", "eyJ0eXAi", "eyJraWQi"];

/// A prefix of few characters says little: all three classes must follow.
fn long_and_mixed(body: &[u8]) -> bool {
    let letters = body.iter().filter(|b| b.is_ascii_alphanumeric()).count();
    mixed(body) && has_digit(body) && letters * 8 >= body.len() * 7
}
