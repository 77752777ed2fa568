package ci

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Start is the client: it starts a job at the server at that address. The same
// key starts the same job, once.
func Start(
	ctx context.Context, server string, o Order, callback, key string,
) (id string, err error) {
	body, err := json.Marshal(struct {
		Order
		Callback string `json:"callback"`
	}{o, callback})
	if err != nil {
		return "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server+"/jobs",
		bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Idempotency-Key", key)
	status, answer, err := send(r)
	if err != nil {
		return "", fmt.Errorf("the CI server can't be reached: %w", err)
	}
	if status != http.StatusCreated {
		return "", fmt.Errorf("the CI server answered %d: %s", status, answer)
	}
	return answer, nil
}

var client = &http.Client{Timeout: 10 * time.Second}

func send(r *http.Request) (status int, answer string, err error) {
	res, err := client.Do(r)
	if err != nil {
		// The error itself has the callback's URL, and so the token, in it.
		return 0, "", errors.New("no connection")
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	return res.StatusCode, strings.TrimSpace(string(text)), err
}
