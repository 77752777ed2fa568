package workflow

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fermata-ai/fermata/internal/jsontree"
)

// JSON Pointers (RFC 6901), on trees of package jsontree. encoding/json has
// none, and v2's leads through a text and not through a tree.

// split returns the tokens of a pointer that is not empty.
func split(pointer string) ([]string, error) {
	tokens := strings.Split(pointer, "/")
	if tokens[0] != "" || len(tokens) < 2 {
		return nil, fmt.Errorf("the reference %q doesn't begin with a slash", pointer)
	}
	for i, t := range tokens[1:] {
		plain := strings.ReplaceAll(strings.ReplaceAll(t, "~0", ""), "~1", "")
		if strings.Contains(plain, "~") {
			return nil, fmt.Errorf("in the reference %q a ~ stands that is neither ~0 nor ~1", pointer)
		}
		tokens[i+1] = strings.ReplaceAll(strings.ReplaceAll(t, "~1", "/"), "~0", "~")
	}
	return tokens[1:], nil
}

// at returns the value to which tokens lead in a tree.
func at(v any, tokens []string) (any, error) {
	for _, t := range tokens {
		next, ok := member(v, t)
		if !ok {
			return nil, fmt.Errorf("there is no %q", t)
		}
		v = next
	}
	return v, nil
}

func member(v any, token string) (any, bool) {
	switch v := v.(type) {
	case *jsontree.Object:
		return v.Get(token)
	case []any:
		i, err := strconv.Atoi(token)
		if err != nil || i < 0 || i >= len(v) || strconv.Itoa(i) != token {
			return nil, false
		}
		return v[i], true
	}
	return nil, false
}
