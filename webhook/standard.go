package webhook

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// The prefixes of secrets of Standard Webhooks: what signs and verifies by
// HMAC, what verifies by ed25519, and what signs for that.
const (
	symmetricPrefix = "whsec_"
	publicPrefix    = "whpk_"
	privatePrefix   = "whsk_"
)

// StandardWebhooks returns a verifier of the scheme of that name
// (https://www.standardwebhooks.com). A secret that begins with "whpk_" is a
// public key of ed25519, for signatures of the form v1a. Any other is one of
// HMAC-SHA256, for the form v1: base64, with or without "whsec_" before it. The
// signature covers the header webhook-id, which is the delivery's id.
func StandardWebhooks(s Secrets) (Verifier, error) {
	keys, err := newKeyring(s, usableStandard)
	if err != nil {
		return nil, err
	}
	return &standardWebhooks{keys}, nil
}

type standardWebhooks struct{ keys *keyring }

func (v *standardWebhooks) Verify(h http.Header, body []byte, now time.Time) (Signed, error) {
	f, err := v.fields(h, now)
	if err != nil {
		return Signed{}, err
	}
	for _, secret := range v.keys.current() {
		if f.verify(secret, h, body) {
			return Signed{Sender: v.keys.Sender, Delivery: f.id}, nil
		}
	}
	return Signed{}, unverified("no signature on it is by one of the secrets")
}

// standardFields are what the headers of a request say.
type standardFields struct{ id, at, signatures string }

// fields returns what the headers say, if they have the scheme's form, and the
// time is near enough to now.
func (v *standardWebhooks) fields(h http.Header, now time.Time) (f standardFields, err error) {
	if f.id, err = only(h, standard.HeaderWebhookID); err != nil {
		return f, err
	}
	if f.at, err = only(h, standard.HeaderWebhookTimestamp); err != nil {
		return f, err
	}
	if f.signatures, err = only(h, standard.HeaderWebhookSignature); err != nil {
		return f, err
	}
	if !plainID(f.id) || len(f.signatures) > maxSignature {
		return f, unverified("its id or its signature is not of the scheme's form")
	}
	return f, v.keys.fresh(f.at, now)
}

// verify reports whether one of the signatures is by that secret.
func (f *standardFields) verify(secret string, h http.Header, body []byte) bool {
	if key, public := strings.CutPrefix(secret, publicPrefix); public {
		raw, err := base64.StdEncoding.DecodeString(key)
		return err == nil && verifiesV1a(raw, f.signatures, signedContent(f.id, f.at, body))
	}
	w, err := standard.NewWebhook(secret)
	return err == nil && w.VerifyIgnoringTimestamp(body, h) == nil
}

// verifiesV1a reports whether one of the signatures is by that key.
func verifiesV1a(key ed25519.PublicKey, signatures string, content []byte) bool {
	for text := range strings.SplitSeq(signatures, " ") {
		encoded, ok := strings.CutPrefix(text, "v1a,")
		if !ok {
			continue
		}
		signature, err := base64.StdEncoding.Strict().DecodeString(encoded)
		if err == nil && ed25519.Verify(key, content, signature) {
			return true
		}
	}
	return false
}

// signedContent is what a signature of Standard Webhooks covers. The id has no
// full stop, and the time is a number, so it can be read in one way only.
func signedContent(id, at string, body []byte) []byte {
	content := make([]byte, 0, len(id)+len(at)+len(body)+2)
	content = append(append(content, id...), '.')
	content = append(append(content, at...), '.')
	return append(content, body...)
}

// maxDeliveryID is how long the id of a delivery may be, in bytes, to be kept
// with a receipt.
const maxDeliveryID = 256

// plainID reports whether an id is of printable ASCII without full stops: with
// one, the end of a body could be passed off as the whole of another.
func plainID(id string) bool {
	if id == "" || len(id) > maxDeliveryID {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' || id[i] == '.' {
			return false
		}
	}
	return true
}

// usableStandard returns what is wrong with a secret to verify by.
func usableStandard(secret string) error {
	if strings.HasPrefix(secret, privatePrefix) {
		return errors.New("is the key that signs; what verifies begins with " + publicPrefix)
	}
	if key, public := strings.CutPrefix(secret, publicPrefix); public {
		raw, err := base64.StdEncoding.DecodeString(key)
		if err != nil || len(raw) != ed25519.PublicKeySize {
			return fmt.Errorf("is no public key of ed25519: %d bytes in base64",
				ed25519.PublicKeySize)
		}
		return nil
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, symmetricPrefix))
	if err != nil {
		return errors.New("is not base64") // the error would quote a piece of it
	}
	return longEnough(string(raw))
}

// Sign puts the headers of Standard Webhooks on a request that is to carry a
// body. A secret that begins with "whsk_" is a private key of ed25519 (its 64
// bytes, or its seed of 32, in base64); any other is one of HMAC-SHA256. A
// second Sign with another secret adds its signature, if the id and the time
// are the same. The id is printable ASCII without spaces and full stops, of at
// most 256 bytes, and the same each time that the delivery is tried.
func Sign(h http.Header, secret, id string, at time.Time, body []byte) error {
	if !plainID(id) {
		return fmt.Errorf("webhook: the id %.40q of a delivery is not of printable ASCII "+
			"without spaces and full stops, or longer than %d bytes", id, maxDeliveryID)
	}
	signature, err := signature(secret, id, at, body)
	if err != nil {
		return err
	}
	seconds := strconv.FormatInt(at.Unix(), 10)
	before := h.Get(standard.HeaderWebhookSignature)
	if before != "" && h.Get(standard.HeaderWebhookID) == id &&
		h.Get(standard.HeaderWebhookTimestamp) == seconds {
		signature = before + " " + signature
	}
	h.Set(standard.HeaderWebhookID, id)
	h.Set(standard.HeaderWebhookTimestamp, seconds)
	h.Set(standard.HeaderWebhookSignature, signature)
	return nil
}

// signature returns one signature with its version before it.
func signature(secret, id string, at time.Time, body []byte) (string, error) {
	key, private := strings.CutPrefix(secret, privatePrefix)
	if !private {
		if err := usableStandard(secret); err != nil {
			return "", fmt.Errorf("webhook: the secret to sign with %w", err)
		}
		w, err := standard.NewWebhook(secret)
		if err != nil {
			return "", errors.New("webhook: the secret to sign with is not base64")
		}
		return w.Sign(id, at, body)
	}
	raw, err := base64.StdEncoding.DecodeString(key)
	if err != nil || len(raw) != ed25519.SeedSize && len(raw) != ed25519.PrivateKeySize {
		return "", errors.New("webhook: the secret to sign with is no private key of ed25519")
	}
	whole := ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])
	if !bytes.HasPrefix(whole, raw) { // to sign with two halves that don't fit gives the key away
		return "", errors.New("webhook: the halves of the key to sign with don't belong together")
	}
	content := signedContent(id, strconv.FormatInt(at.Unix(), 10), body)
	return "v1a," + base64.StdEncoding.EncodeToString(ed25519.Sign(whole, content)), nil
}
