package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"
)

// GitHub returns a verifier of GitHub's scheme: the header X-Hub-Signature-256.
// The secret is any text of at least 24 bytes.
//
// GitHub signs the body and nothing else. So the id of the delivery in its
// headers, and the kind of event, are not believed, and a request that was
// signed once can be sent again by any who has seen it. What such a request
// asks for is known as a duplicate by its content.
func GitHub(s Secrets) (Verifier, error) {
	keys, err := newKeyring(s, longEnough)
	if err != nil {
		return nil, err
	}
	return &gitHub{keys}, nil
}

type gitHub struct{ keys *keyring }

const gitHubSignature = "X-Hub-Signature-256"

func (v *gitHub) Verify(h http.Header, body []byte, _ time.Time) (Signed, error) {
	text, err := gitHubText(h)
	if err != nil {
		return Signed{}, err
	}
	for _, secret := range v.keys.current() {
		if isHex(text, mac(secret, body)) {
			return Signed{Sender: v.keys.Sender}, nil
		}
	}
	return Signed{}, unverified("its signature is not by one of the secrets")
}

// gitHubText returns the signature in the headers, which is hexadecimal.
func gitHubText(h http.Header) (string, error) {
	header, err := only(h, gitHubSignature)
	if err != nil {
		return "", err
	}
	text, ok := strings.CutPrefix(header, "sha256=")
	if !ok {
		return "", unverified("its signature is not of the scheme's form")
	}
	return text, nil
}

// mac returns the HMAC-SHA256 of the parts of a message.
func mac(secret string, message ...[]byte) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	for _, part := range message {
		h.Write(part)
	}
	return h.Sum(nil)
}

// isHex reports whether a text is that sum, in hexadecimal digits of either
// case.
func isHex(text string, sum []byte) bool {
	given, err := hex.DecodeString(text)
	return err == nil && hmac.Equal(given, sum)
}
