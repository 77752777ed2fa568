package kvstore

import (
	"fmt"
	"strings"
)

// Key joins parts to a key that sorts as the tuple of its parts does: no part
// is mistaken for another's beginning, so that "chat-1" is no prefix of
// "chat-10". Each part is followed by 0x00; inside a part 0x00 becomes 0x01
// 0x01 and 0x01 becomes 0x01 0x02. A key of fewer parts is a prefix of every
// key that goes on from it.
func Key(parts ...string) []byte {
	n := 0
	for _, p := range parts {
		n += len(p) + 1
	}
	return AppendKey(make([]byte, 0, n), parts...)
}

// AppendKey appends what Key makes of parts to b.
func AppendKey(b []byte, parts ...string) []byte {
	for _, p := range parts {
		if strings.IndexByte(p, 0) < 0 && strings.IndexByte(p, 1) < 0 {
			b = append(b, p...)
		} else {
			b = appendEscaped(b, p)
		}
		b = append(b, 0)
	}
	return b
}

func appendEscaped(b []byte, part string) []byte {
	for i := 0; i < len(part); i++ {
		switch c := part[i]; c {
		case 0, 1:
			b = append(b, 1, c+1)
		default:
			b = append(b, c)
		}
	}
	return b
}

// Parts takes a key apart that Key made.
func Parts(key []byte) ([]string, error) {
	var parts []string
	part := make([]byte, 0, len(key))
	for i := 0; i < len(key); i++ {
		switch c := key[i]; c {
		case 0:
			parts = append(parts, string(part))
			part = part[:0]
		case 1:
			i++
			if i == len(key) || key[i] < 1 || key[i] > 2 {
				return nil, fmt.Errorf("kvstore: malformed key %q: a lone escape at byte %d", key,
					i-1)
			}
			part = append(part, key[i]-1)
		default:
			part = append(part, c)
		}
	}
	if len(part) > 0 {
		return nil, fmt.Errorf("kvstore: malformed key %q: the last part has no end", key)
	}
	return parts, nil
}
