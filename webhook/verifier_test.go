package webhook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/fermata-ai/fermata/webhook"
)

// The vectors of the specifications, and of what their services publish.
const (
	vectorID   = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	vectorAt   = 1614265330
	vectorBody = `{"test": 2432232314}`

	symmetric   = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	symmetricBy = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

	public  = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="
	private = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9" +
		"lMicMFs6Kvg=="
	publicBy = "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8" +
		"EM+m7TBAg=="

	gitHubSecret = "It's a Secret to Everybody"
	gitHubBody   = "Hello, World!"
	gitHubBy     = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"

	stripeSecret = "whsec_stripes_secrets_are_any_text"
)

var vectorNow = time.Unix(vectorAt, 0)

func secrets(all ...string) webhook.Secrets {
	return webhook.Secrets{Sender: "payments", Current: webhook.Fixed(all...)}
}

func made(v webhook.Verifier, err error) func(*testing.T) webhook.Verifier {
	return func(t *testing.T) webhook.Verifier {
		t.Helper()
		must(t, err)
		return v
	}
}

// headers returns those of a list of names and values.
func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func signedBy(signature string) http.Header {
	return headers("Webhook-Id", vectorID, "Webhook-Timestamp", fmt.Sprint(vectorAt),
		"Webhook-Signature", signature)
}

// stripeBy returns Stripe's signature, made as its documentation says.
func stripeBy(at, body string) string { return mac256(stripeSecret, at+"."+body) }

func mac256(secret, message string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(message))
	return hex.EncodeToString(mac.Sum(nil))
}

// streamed checks a body in pieces.
func streamed(v webhook.Verifier, h http.Header, body string) (webhook.Signed, error) {
	check, err := v.(webhook.StreamVerifier).Stream(h, vectorNow)
	if err != nil {
		return webhook.Signed{}, err
	}
	for _, piece := range strings.SplitAfter(body, "e") {
		if _, err := check.Write([]byte(piece)); err != nil {
			return webhook.Signed{}, err
		}
	}
	return check.Signed()
}

// What the specifications give as signed is, by each of the schemes.
func TestVectorsVerify(t *testing.T) {
	stripeHeader := fmt.Sprintf("t=%d,v1=%s,v0=6ffbb59b", vectorAt,
		stripeBy(fmt.Sprint(vectorAt), vectorBody))
	for name, test := range map[string]struct {
		v        func(*testing.T) webhook.Verifier
		h        http.Header
		body     string
		delivery string
	}{
		"v1": {made(webhook.StandardWebhooks(secrets(symmetric))), signedBy(symmetricBy), vectorBody, vectorID},
		"v1, without the prefix": {made(webhook.StandardWebhooks(secrets(symmetric[6:]))),
			signedBy(symmetricBy), vectorBody, vectorID},
		"v1a": {made(webhook.StandardWebhooks(secrets(public))), signedBy(publicBy), vectorBody, vectorID},
		"both, the second secret": {made(webhook.StandardWebhooks(secrets(
			"whsec_"+strings.Repeat("A", 32), public))), signedBy(symmetricBy + " " + publicBy),
			vectorBody, vectorID},
		"among others": {made(webhook.StandardWebhooks(secrets(symmetric))),
			signedBy("v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc= v2,x " + symmetricBy), vectorBody, vectorID},
		"GitHub": {made(webhook.GitHub(secrets(gitHubSecret))),
			headers("X-Hub-Signature-256", gitHubBy), gitHubBody, ""},
		"Stripe": {made(webhook.Stripe(secrets(stripeSecret))),
			headers("Stripe-Signature", stripeHeader), vectorBody, ""},
		"Stripe, two secrets and two signatures": {made(webhook.Stripe(secrets(gitHubSecret, stripeSecret))),
			headers("Stripe-Signature", "v1=00,"+stripeHeader), vectorBody, ""},
	} {
		t.Run(name, func(t *testing.T) {
			by, err := test.v(t).Verify(test.h, []byte(test.body), vectorNow)
			want := webhook.Signed{Sender: "payments", Delivery: test.delivery}
			if err != nil || by != want {
				t.Errorf("it verifies as %+v, %v", by, err)
			}
			by, err = streamed(test.v(t), test.h, test.body)
			switch {
			case strings.Contains(test.h.Get("Webhook-Signature"), "v1a,"): // which goes over it twice
				if !errors.Is(err, webhook.ErrUnverified) {
					t.Errorf("in pieces it verifies as %+v, %v", by, err)
				}
			case err != nil || by != want:
				t.Errorf("in pieces it verifies as %+v, %v", by, err)
			}
		})
	}
}

// The specification's library verifies what Sign signs, and ours does, by each
// of the forms; a second Sign adds its signature.
func TestWhatIsSignedVerifiesElsewhere(t *testing.T) {
	h, body := http.Header{}, []byte(vectorBody)
	must(t, webhook.Sign(h, symmetric, vectorID, vectorNow, body))
	if got := h.Get("Webhook-Signature"); got != symmetricBy {
		t.Errorf("v1 is %s", got)
	}
	must(t, webhook.Sign(h, private, vectorID, vectorNow, body))
	if got := h.Get("Webhook-Signature"); got != symmetricBy+" "+publicBy {
		t.Errorf("with v1a it is %s", got)
	}
	for _, secret := range []string{symmetric, public} {
		v := made(webhook.StandardWebhooks(secrets(secret)))(t)
		if _, err := v.Verify(h, body, vectorNow); err != nil {
			t.Errorf("by %.6s: %v", secret, err)
		}
	}
	now := time.Now()
	must(t, webhook.Sign(h, symmetric, "another", now, body)) // which replaces the headers
	theirs, err := standard.NewWebhook(symmetric)
	must(t, err)
	must(t, theirs.Verify(body, h))

	seed := private[:5] + base64.StdEncoding.EncodeToString(decoded(t, private[5:])[:32])
	must(t, webhook.Sign(h, seed, vectorID, vectorNow, body))
	if got := h.Get("Webhook-Signature"); got != publicBy {
		t.Errorf("by the seed v1a is %s", got)
	}
	crossed := decoded(t, private[5:])
	crossed[40]++
	for name, bad := range map[string][2]string{
		"a public key":           {public, vectorID},
		"a short secret":         {"whsec_AAAA", vectorID},
		"halves that don't fit":  {"whsk_" + base64.StdEncoding.EncodeToString(crossed), vectorID},
		"no key":                 {"whsk_AAAA", vectorID},
		"an id with a full stop": {symmetric, "a.b"},
		"an id of two lines":     {symmetric, "a\r\nb"},
		"an id that is empty":    {symmetric, ""},
	} {
		if err := webhook.Sign(h, bad[0], bad[1], now, body); err == nil {
			t.Errorf("%s signs", name)
		} else if strings.Contains(err.Error(), bad[0][5:]) {
			t.Errorf("%s: the error has the secret: %v", name, err)
		}
	}
}

func decoded(t *testing.T, text string) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(text)
	must(t, err)
	return b
}

// Headers of every shape that isn't the scheme's are refused, and never break
// anything: with the vector's signature, one thing at a time is wrong.
func TestMalformedHeadersAreRefused(t *testing.T) {
	v1 := made(webhook.StandardWebhooks(secrets(symmetric)))(t)
	v1a := made(webhook.StandardWebhooks(secrets(public)))(t)
	gitHub := made(webhook.GitHub(secrets(gitHubSecret)))(t)
	stripe := made(webhook.Stripe(secrets(stripeSecret)))(t)
	refused := func(v webhook.Verifier, h http.Header, body, what string) {
		t.Helper()
		if by, err := v.Verify(h, []byte(body), vectorNow); !errors.Is(err, webhook.ErrUnverified) {
			t.Errorf("%s: it verifies as %+v, %v", what, by, err)
		}
		if by, err := streamed(v, h, body); !errors.Is(err, webhook.ErrUnverified) {
			t.Errorf("%s: in pieces it verifies as %+v, %v", what, by, err)
		}
	}
	both := []struct {
		v  webhook.Verifier
		by string
	}{{v1, symmetricBy}, {v1a, publicBy}}
	for _, b := range both {
		for _, at := range []string{"", "NaN", "1e99", "-1", "-1614265330", "+1614265330", "01614265330",
			" 1614265330", "1614265330 ", "1614265330.0", "99999999999999999999", "9223372036854775807",
			"1614265331", fmt.Sprint(vectorAt - 3600), fmt.Sprint(vectorAt + 3600), "\u0661", "0x60"} {
			h := signedBy(b.by)
			h.Set("Webhook-Timestamp", at)
			refused(b.v, h, vectorBody, "the time "+at)
		}
		version, text, _ := strings.Cut(b.by, ",")
		for _, by := range []string{"", ",", version, version + ",", text, strings.ToUpper(b.by), "v2," + text,
			version + "," + strings.ToUpper(text), version + ", " + text, version + "," + text[:len(text)-1],
			version + "," + strings.TrimRight(text, "="), version + "," + text + "=", "\xff\xfe", "v1,\u00e9",
			version + "," + hex.EncodeToString(decoded(t, text)), version + "=" + text,
			strings.Repeat("v1,AAAA ", 300) + b.by} {
			refused(b.v, signedBy(by), vectorBody, "the signature "+by)
		}
		for _, id := range []string{"", "msg_other", vectorID + " ", "a.b", "a\nb", "\u00e9", strings.Repeat("x", 257)} {
			h := signedBy(b.by)
			h.Set("Webhook-Id", id)
			refused(b.v, h, vectorBody, "the id "+id)
		}
		for _, name := range []string{"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"} {
			h := signedBy(b.by)
			h.Add(name, h.Get(name))
			refused(b.v, h, vectorBody, name+" twice")
			h.Del(name)
			refused(b.v, h, vectorBody, "no "+name)
		}
		for _, body := range []string{"", vectorBody + "\n", `{"test":2432232314}`, " " + vectorBody} {
			refused(b.v, signedBy(b.by), body, "the body "+body)
		}
	}
	for _, by := range []string{"", "sha256=", "sha256", gitHubBy[7:], "sha1=" + gitHubBy[7:], gitHubBy + "0",
		gitHubBy[:len(gitHubBy)-2], "sha256=\u00e9", gitHubBy + "," + gitHubBy, "SHA256=" + gitHubBy[7:]} {
		refused(gitHub, headers("X-Hub-Signature-256", by), gitHubBody, "GitHub's "+by)
	}
	refused(gitHub, headers("X-Hub-Signature-256", gitHubBy, "X-Hub-Signature-256", gitHubBy), gitHubBody, "two")
	refused(gitHub, headers("X-Hub-Signature", gitHubBy), gitHubBody, "the header of SHA-1")

	at := fmt.Sprint(vectorAt)
	by := stripeBy(at, vectorBody)
	for _, header := range []string{"", "t=" + at, "v1=" + by, "t=,v1=" + by, "t=" + at + ",v0=" + by,
		"t=" + at + ",v1=", "t=" + at + ", v1=" + by, "t=" + at + ",t=" + at + ",v1=" + by,
		"t=" + at + "0,v1=" + by, "t=0" + at + ",v1=" + by, "t=NaN,v1=" + by, "t=" + at + ",v1=" + by + "00",
		"t=" + at + ",v1=" + strings.Repeat("00", 1024) + ",v1=" + by} {
		refused(stripe, headers("Stripe-Signature", header), vectorBody, "Stripe's "+header)
	}
}

// An id, a time and a body can be cut apart in one way only: what was signed
// for one delivery is not the signature of another.
func TestSplicedContentIsRefused(t *testing.T) {
	body := fmt.Sprintf("%d.{}", vectorAt)
	signature, err := made2(standard.NewWebhook(symmetric)).Sign("m1", vectorNow, []byte(body))
	must(t, err)
	v := made(webhook.StandardWebhooks(secrets(symmetric)))(t)
	h := headers("Webhook-Id", "m1", "Webhook-Timestamp", fmt.Sprint(vectorAt), "Webhook-Signature", signature)
	if _, err := v.Verify(h, []byte(body), vectorNow); err != nil {
		t.Fatal(err)
	}
	h.Set("Webhook-Id", fmt.Sprintf("m1.%d", vectorAt))
	if by, err := v.Verify(h, []byte("{}"), vectorNow); !errors.Is(err, webhook.ErrUnverified) {
		t.Errorf("the end of a body verifies as %+v, %v", by, err)
	}
}
