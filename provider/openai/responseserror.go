package openai

import (
	"errors"
	"net/http"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
)

// gaveUp returns the error of a response that the API gave up, in a reply that
// had begun well.
func gaveUp(a answer, response responses.Response) error {
	t := trouble{code: string(response.Error.Code), message: response.Error.Message}
	return t.error(responsesName, 0, a.Header, nil)
}

// estranged reports whether the API refuses what it made itself, by its code or
// by its words: encrypted reasoning that it can't read, or an item without one
// that it was made with.
func estranged(err error) bool {
	var api *openai.Error
	if !errors.As(err, &api) || api.StatusCode != http.StatusBadRequest &&
		api.StatusCode != http.StatusNotFound {
		return false
	}
	if api.Code == "invalid_encrypted_content" {
		return true
	}
	for _, words := range []string{
		"could not be verified", "without its required 'reasoning' item",
		"without its required following item", "Items are not persisted",
	} {
		if strings.Contains(api.Message, words) {
			return true
		}
	}
	return false
}
