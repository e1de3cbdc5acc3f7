//! Makes secrets of each kind by chance, the same ones for the same seed.

/// xorshift64*: enough for test data.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        if self.0 < 1 << 20 {
            self.0 = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        }
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap() % n
    }

    pub(super) fn text(&mut self, alphabet: &str, length: usize) -> String {
        let all: Vec<char> = alphabet.chars().collect();
        (0..length).map(|_| all[self.below(all.len())]).collect()
    }
}

pub(super) const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const WORD: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const DIGITS62: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// With GitHub's and npm's checksum.
pub(super) fn github(random: &mut Random, prefix: &str) -> String {
    let body = random.text(ALNUM, 30);
    let mut left = crc32fast::hash(body.as_bytes());
    let mut sum = Vec::new();
    for _ in 0..6 {
        sum.insert(0, DIGITS62[usize::try_from(left % 62).unwrap()]);
        left /= 62;
    }
    format!("{prefix}{body}{}", String::from_utf8(sum).unwrap())
}

pub(super) fn base64(bytes: &[u8]) -> String {
    let digits: Vec<char> = BASE64.chars().collect();
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let mut bits = 0_usize;
        for at in 0..3 {
            bits = bits << 8 | usize::from(group.get(at).copied().unwrap_or(0));
        }
        for at in 0..4 {
            out.push(if at > group.len() { '=' } else { digits[bits >> (18 - 6 * at) & 63] });
        }
    }
    out
}

fn url64(bytes: &[u8]) -> String {
    base64(bytes).replace('+', "-").replace('/', "_").trim_end_matches('=').to_owned()
}

pub(super) fn jwt(random: &mut Random) -> String {
    let header =
        [r#"{"alg":"RS256","typ":"JWT"}"#, r#"{"typ":"JWT","alg":"ES256","kid":"k1"}"#][random.below(2)];
    let payload = format!(r#"{{"sub":"{}","exp":1790000000}}"#, random.text(ALNUM, 12));
    format!("{}.{}.{}", url64(header.as_bytes()), url64(payload.as_bytes()), random.text(WORD, 86))
}

fn pem(random: &mut Random) -> String {
    let kind = ["RSA ", "EC ", "", "OPENSSH ", "ENCRYPTED "][random.below(5)];
    let lines: Vec<String> = (0..6).map(|_| random.text(BASE64, 64)).collect();
    format!("-----BEGIN {kind}PRIVATE KEY-----\n{}\n-----END {kind}PRIVATE KEY-----", lines.join("\n"))
}

fn card(random: &mut Random) -> String {
    let mut digits: Vec<u32> =
        ["4", "51", "55", "37", "6011"][random.below(5)].bytes().map(|b| u32::from(b - b'0')).collect();
    let length = if digits == [3, 7] { 15 } else { 16 };
    while digits.len() < length - 1 {
        digits.push(u32::try_from(random.below(10)).unwrap());
    }
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(at, d)| if at % 2 == 0 { d * 2 / 10 + d * 2 % 10 } else { *d })
        .sum();
    digits.push((10 - sum % 10) % 10);
    let plain: String = digits.iter().map(u32::to_string).collect();
    match (length, random.below(3)) {
        (16, 0) => format!("{} {} {} {}", &plain[..4], &plain[4..8], &plain[8..12], &plain[12..]),
        (16, 1) => format!("{}-{}-{}-{}", &plain[..4], &plain[4..8], &plain[8..12], &plain[12..]),
        _ => plain,
    }
}

fn iban(random: &mut Random) -> String {
    let bban = random.text("0123456789", 18);
    let digits = format!("{bban}131400");
    let left = digits.bytes().fold(0, |left, b| (left * 10 + u32::from(b - b'0')) % 97);
    let plain = format!("DE{:02}{bban}", 98 - left);
    if random.below(2) == 0 {
        return plain;
    }
    plain.as_bytes().chunks(4).map(|c| std::str::from_utf8(c).unwrap()).collect::<Vec<_>>().join(" ")
}

/// A secret of some kind, and the rule that knows it.
pub(super) fn any(random: &mut Random) -> (String, &'static str) {
    let gh = ["ghp_", "gho_", "ghu_", "ghs_", "ghr_"][random.below(5)];
    let r = random;
    match r.below(24) {
        0 => (format!("{}{}", ["AKIA", "ASIA"][r.below(2)], r.text(UPPER, 16)), "aws"),
        1 | 2 => (github(r, gh), "github"),
        3 => (format!("github_pat_{}_{}", r.text(ALNUM, 22), r.text(ALNUM, 59)), "github"),
        4 => (format!("glpat-{}", r.text(WORD, 20)), "gitlab"),
        5 => (
            format!("xoxb-{}-{}-{}", r.text("123456789", 12), r.text("0123456789", 13), r.text(ALNUM, 24)),
            "slack",
        ),
        6 => (format!("{}{}", ["sk_live_", "rk_live_", "sk_test_"][r.below(3)], r.text(ALNUM, 24)), "stripe"),
        7 => (format!("AIza{}", r.text(WORD, 35)), "google"),
        8 => (format!("sk-proj-{}T3BlbkFJ{}", r.text(WORD, 74), r.text(WORD, 74)), "openai"),
        9 => (format!("sk-{}T3BlbkFJ{}", r.text(ALNUM, 20), r.text(ALNUM, 20)), "openai"),
        10 => (format!("sk-ant-api03-{}AA", r.text(WORD, 93)), "anthropic"),
        11 => (github(r, "npm_"), "npm"),
        12 => (format!("pypi-AgEIcHlwaS5vcmc{}", r.text(WORD, 120)), "pypi"),
        13 | 14 => (jwt(r), "jwt"),
        15 => (pem(r), "private-key"),
        16 => (format!("AccountKey={}==", r.text(BASE64, 86)), "azure"),
        17 => (format!("Bearer {}", r.text(ALNUM, 40)), "authorization"),
        18 => (format!("amqp://svc:{}@mq.internal:5672/", r.text(ALNUM, 14)), "url-password"),
        19 => (format!("{}.{}@mail.example.org", r.text("abcdefgh", 5), r.text("stuvw", 6)), "email"),
        20 | 21 => (card(r), "card"),
        22 => (iban(r), "iban"),
        _ => (format!("SG.{}.{}", r.text(WORD, 22), r.text(WORD, 43)), "sendgrid"),
    }
}

/// The part of a secret that must not be left.
pub(super) fn core(secret: &str) -> &str {
    match secret.split_once("://svc:").and_then(|(_, rest)| rest.split_once('@')) {
        Some((password, _)) => password,
        None => secret.strip_prefix("Bearer ").unwrap_or(secret),
    }
}

/// Whether base64 of the text is looked into: token formats with a start of four characters or more.
pub(super) fn found_in_base64(text: &str) -> bool {
    !(text.contains("Bearer ")
        || text.contains("://")
        || text.contains('@')
        || text.contains("SG.")
        || {
            let digits = text.bytes().filter(u8::is_ascii_digit).count();
            let letters = text.bytes().filter(u8::is_ascii_alphabetic).count();
            digits >= 15 && letters <= 6
        }
        || (text.contains(" sk-") && !text.contains("sk-proj") && !text.contains("sk-ant")))
}
