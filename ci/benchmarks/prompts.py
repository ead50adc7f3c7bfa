"""Twenty plain prompts: prose, lists, code, numbers, and scripts other than Latin."""

PROMPTS = (
    "The capital of France is",
    "Once upon a time, in a village by the sea,",
    "Water boils at a temperature of",
    "def fibonacci(n):\n    ",
    "The three primary colours are",
    "Dear Sir or Madam,\n\nI am writing to",
    "1, 1, 2, 3, 5, 8, 13,",
    "Q: Why is the sky blue?\nA:",
    "SELECT name, price FROM products WHERE",
    "In 1969, the first humans",
    "A recipe for pancakes:\n\nIngredients:\n-",
    "The difference between a list and a tuple in Python is",
    '{"name": "Ada", "year": 1815, "city":',
    "Die Hauptstadt von Deutschland ist",
    "La photosynthèse est le processus par lequel",
    "El perro y el gato",
    "東京は日本の",
    "Привет! Меня зовут",
    "# Shopping list\n\n1.",
    "It was a bright cold day in April, and",
)
